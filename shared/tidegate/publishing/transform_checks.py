"""What a transform says against what the model reads and answers; and what it leaves to the model.

Whatever a transform.toml may leave out is filled in here, so that a manifest says all of it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tidegate.artifacts.manifest import LabelsSpec, TabularSpec, TransformSpec
from tidegate.artifacts.transform_specs import ImageSpec, PoolingSpec, TextSpec, default_buckets
from tidegate.errors import ArtifactError
from tidegate.inference.transforms.image import row_shape
from tidegate.inference.transforms.text import load_tokenizer
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import VARIABLE, Signature, TensorSpec

TOKENIZER_FILE: Final = "assets/tokenizer.json"
"""Where a version keeps it."""
_MATRIX_RANK: Final = 2
_PAD_TOKENS: Final = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>", "</s>")
_CONVENTIONAL: Final = {"ids": "input_ids", "mask": "attention_mask", "types": "token_type_ids"}
"""What exporters call the inputs of an encoder."""


def complete_transform(
    transform: TransformSpec, signature: Signature, *, folder: Path
) -> TransformSpec:
    """Fill in what depends on the model, and refuse what does not fit it.

    Args:
        transform: As its file has it.
        signature: Of the model.
        folder: Where the transform's files lie.

    Raises:
        ArtifactError: An input or output is not there, or has another shape or datatype.
    """
    text, image = transform.text, transform.image
    if text is not None:
        text = _complete_text(text, signature, folder / text.tokenizer)
    if image is not None:
        image = _complete_image(image, signature)
    complete = msgspec.structs.replace(transform, text=text, image=image)
    check_transform(complete, signature)
    return complete


def check_transform(transform: TransformSpec, signature: Signature) -> None:
    """Refuse a transform whose tensors are not the model's.

    Raises:
        ArtifactError: An input or output is not there, or has another size than the names.
    """
    if transform.tabular is not None:
        _check_tabular(transform.tabular, signature)
    if transform.pooling is not None:
        _check_pooling(transform.pooling, signature)
    if transform.labels is not None:
        _check_labels(transform.labels, signature)


def _check_tabular(tabular: TabularSpec, signature: Signature) -> None:
    spec = _only_input("[tabular]", tabular.input, signature)
    _check_width("[tabular] columns", len(tabular.columns), spec)  # integers would lose digits


def _check_labels(labels: LabelsSpec, signature: Signature) -> None:
    spec = _find("[labels] output", labels.output, signature.outputs)
    _check_width("[labels] names", len(labels.names), spec)


def _check_pooling(pooling: PoolingSpec, signature: Signature) -> None:
    spec = _find("[pooling] output", pooling.output, signature.outputs)
    if len(spec.shape) != _MATRIX_RANK + 1 or not _is_float(spec):
        raise ArtifactError(
            f"[pooling] output: {spec.name!r} is {spec}; it must be of floating-point numbers, "
            "of the shape [rows, tokens, width]"
        )


def _complete_text(text: TextSpec, signature: Signature, file: Path) -> TextSpec:
    tokenizer = load_tokenizer(file)
    names = _text_inputs(text, signature)
    buckets = text.buckets
    length = _length_of(names, signature)
    if buckets is None:
        buckets = default_buckets(text.max_tokens) if length == VARIABLE else (length,)
    if length != VARIABLE and (buckets != (length,) or text.max_tokens != length):
        raise ArtifactError(
            f"[text] max_tokens={text.max_tokens}: every row of this model has {length} tokens, so "
            f"that max_tokens must be {length}, and there is no other bucket"
        )
    added = tokenizer.num_special_tokens_to_add(is_pair=False) if text.special_tokens else 0
    if added >= text.max_tokens:
        raise ArtifactError(
            f"[text] max_tokens={text.max_tokens} leaves no room for text: the tokenizer adds "
            f"{added} special tokens"
        )
    pad_id = text.pad_id
    if pad_id is None:
        known = (tokenizer.token_to_id(token) for token in _PAD_TOKENS)
        pad_id = next((token for token in known if token is not None), None)
    if pad_id is None:
        raise ArtifactError(
            f"[text] needs pad_id, the id of the token that fills up: {file.name} has none of "
            f"{', '.join(_PAD_TOKENS)}"
        )
    return msgspec.structs.replace(
        text, tokenizer=TOKENIZER_FILE, buckets=buckets, pad_id=pad_id, **names
    )


def _text_inputs(text: TextSpec, signature: Signature) -> dict[str, str | None]:
    """Find the inputs that tokens, mask and segments become; all of the model's must be one."""
    there = [spec.name for spec in signature.inputs]
    given = {"ids": text.ids, "mask": text.mask, "types": text.types}
    names = {
        role: name or (_CONVENTIONAL[role] if _CONVENTIONAL[role] in there else None)
        for role, name in given.items()
    }
    if names["ids"] is None and len(there) == 1:
        names["ids"] = there[0]
    for role, name in names.items():
        if name is not None or role == "ids":
            spec = _find(f"[text] {role}", str(name or _CONVENTIONAL[role]), signature.inputs)
            _check_tokens(role, spec)
    if set(there) - set(names.values()):
        raise ArtifactError(
            f"[text] fills {[name for name in names.values() if name]}, but the model reads "
            f"{there}. Name the inputs with ids, mask and types, or export it without the others."
        )
    return names


def _check_tokens(role: str, spec: TensorSpec) -> None:
    if len(spec.shape) != _MATRIX_RANK or spec.datatype not in {"INT64", "INT32"}:
        raise ArtifactError(
            f"[text] {role}: {spec.name!r} is {spec}; it must be INT64 or INT32, of the shape "
            "[rows, tokens]"
        )


def _length_of(names: dict[str, str | None], signature: Signature) -> int:
    """Return the number of tokens that every row must have; ``VARIABLE`` where that is free."""
    specs = [spec for spec in signature.inputs if spec.name in names.values()]
    lengths, datatypes = {spec.shape[1] for spec in specs}, {spec.datatype for spec in specs}
    if len(lengths) > 1 or len(datatypes) > 1:
        raise ArtifactError(
            f"[text] fills inputs of one length and datatype; the model reads {signature}"
        )
    return lengths.pop()


def _complete_image(image: ImageSpec, signature: Signature) -> ImageSpec:
    name = image.input or signature.inputs[0].name
    spec = _only_input("[image]", name, signature)
    wanted = row_shape(image)
    fits = len(spec.row_shape) == len(wanted) and all(
        size in {VARIABLE, want} for size, want in zip(spec.row_shape, wanted, strict=True)
    )
    if not fits or not (_is_float(spec) or spec.datatype == "UINT8"):
        raise ArtifactError(
            f'[image] makes {list(wanted)} of each row (layout = "{image.layout}"), of '
            f"floating-point numbers or UINT8; {name!r} is {spec}"
        )
    plain = ImageSpec(size=image.size)
    numbers = (image.scale, image.mean, image.std)
    if not _is_float(spec) and numbers != (plain.scale, plain.mean, plain.std):
        raise ArtifactError(
            f"[image] scale, mean and std are for floating-point numbers; {name!r} is {spec}"
        )
    return msgspec.structs.replace(image, input=name)


def _only_input(what: str, name: str, signature: Signature) -> TensorSpec:
    spec = _find(f"{what} input", name, signature.inputs)
    if len(signature.inputs) != 1:
        names = [found.name for found in signature.inputs]
        raise ArtifactError(
            f"{what} fills one input, but the model reads {names}: publish it without "
            f"{what}, and send each input by its name"
        )
    return spec


def _find(what: str, name: str, specs: Sequence[TensorSpec]) -> TensorSpec:
    for spec in specs:
        if spec.name == name:
            return spec
    raise ArtifactError(
        f"{what} = {name!r} is not in the model; it has {[spec.name for spec in specs]}"
    )


def _is_float(spec: TensorSpec) -> bool:
    return DATATYPES[spec.datatype].kind == "f"


def _check_width(what: str, width: int, spec: TensorSpec) -> None:
    matrix = len(spec.shape) == _MATRIX_RANK and spec.shape[1] in {width, VARIABLE}
    if not (matrix and _is_float(spec)):
        raise ArtifactError(
            f"{what} are {width}, but {spec.name!r} is {spec}: "
            f"it must be of floating-point numbers, of the shape [-1, {width}]"
        )
