"""Where the files of a model lie in the store; a Triton server can be pointed at the same tree."""

from tidegate.ids import ModelName, Version

MODELS = "models/"


def model_prefix(name: ModelName) -> str:
    """Return the folder of all versions of a model."""
    return f"{MODELS}{name}/"


def version_prefix(name: ModelName, version: int) -> str:
    """Return the folder of one version."""
    return f"{MODELS}{name}/{version}/"


def claim_key(name: ModelName, version: int) -> str:
    """Return the object that takes a version number; written first, never again."""
    return version_prefix(name, version) + "claim.json"


def manifest_key(name: ModelName, version: int) -> str:
    """Return the object that makes a version exist; written last."""
    return version_prefix(name, version) + "manifest.json"


def aliases_key(name: ModelName) -> str:
    """Return the object that holds where each alias points."""
    return model_prefix(name) + "aliases.json"


def config_key(name: ModelName) -> str:
    """Return the generated configuration for a Triton server."""
    return model_prefix(name) + "config.pbtxt"


def version_of_key(key: str) -> Version | None:
    """Read the version number out of a key under ``models/<name>/``, if there is one."""
    segments = key.split("/")
    number = segments[2] if len(segments) > 3 else ""  # noqa: PLR2004 - models, name, version, file
    return Version(int(number)) if number.isdecimal() and number.isascii() else None
