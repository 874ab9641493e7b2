"""What offline contenders share: the session, and rows of a file on their way through it."""

import numpy as np
import onnxruntime as ort
import pyarrow as pa


def open_session(file):
    """Open the model with one thread: there is a process for each core."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def matrix(batch):
    """Return the features, ``(rows, features)``: of one list column, or of a column each."""
    if "input" in batch.schema.names:
        column = batch.column("input")
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        return column.flatten().to_numpy().reshape(len(column), -1)
    names = [name for name in batch.schema.names if name != "id"]
    return np.column_stack([batch.column(name).to_numpy() for name in names])


def answered(session, batch):
    """Score a batch, and return its keys beside the predictions as a table."""
    (values,) = session.run(None, {"input": matrix(batch)})
    predictions = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return pa.table({"id": batch.column("id"), "prediction": predictions})
