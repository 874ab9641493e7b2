"""Tensors as the wire, the manifest and the runners name them: datatypes, specs, signatures."""

from tidegate.tensors.datatypes import DATATYPES, Datatype
from tidegate.tensors.signature import Signature, SignatureMismatchError, TensorSpec

__all__ = ["DATATYPES", "Datatype", "Signature", "SignatureMismatchError", "TensorSpec"]
