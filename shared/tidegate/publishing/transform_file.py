"""``transform.toml``: read it."""

import tomllib
from pathlib import Path

import msgspec

from tidegate.artifacts.manifest import TransformSpec
from tidegate.errors import ArtifactError


def read_transform(file: Path) -> TransformSpec:
    """Read a transform file; docs/transforms.md describes it.

    Raises:
        ArtifactError: It is no TOML, or says something that no transform understands.
    """
    try:
        return msgspec.convert(tomllib.loads(file.read_text("utf-8")), TransformSpec)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ArtifactError(f"{file} cannot be read as TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise ArtifactError(
            f"{file}: {error}. docs/transforms.md shows the whole format."
        ) from error
