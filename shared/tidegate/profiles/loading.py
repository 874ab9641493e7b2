"""Profiles by name, from a file, or out of two numbers."""

from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from tidegate.profiles.errors import ProfileError
from tidegate.profiles.laws import Linear
from tidegate.profiles.profile import LatencyProfile, Origin

_LINEAR: Final = "linear:"
_ENDING: Final = ".json"
_BUNDLED: Final = files("tidegate.profiles") / "bundled"


def bundled_profiles() -> tuple[str, ...]:
    """Return the names of the profiles that come with Tidegate, in alphabetical order."""
    names = (entry.name for entry in _BUNDLED.iterdir())
    return tuple(sorted(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING)))


def load_profile(text: str) -> LatencyProfile:
    """Find what somebody wrote on a command line or in a setting.

    Args:
        text: ``linear:ALPHA_MS:BETA_MS``, the name of a bundled profile, or the path of a file.
            A file that is called like a bundled profile is meant by ``./NAME``.

    Raises:
        ProfileError: It is none of these, or it cannot be read.
    """
    if text.startswith(_LINEAR):
        return _linear(text)
    if text in bundled_profiles():
        content = (_BUNDLED / f"{text}{_ENDING}").read_bytes()
        return parse_profile(content, where=f"bundled profile {text!r}")
    try:
        content = Path(text).read_bytes()
    except FileNotFoundError as error:
        raise _unknown(text) from error
    except OSError as error:
        raise ProfileError(f"{text} cannot be read: {error.strerror}") from error
    return parse_profile(content, where=text)


def parse_profile(content: bytes, *, where: str) -> LatencyProfile:
    """Read and check a profile of any released schema.

    Args:
        content: The bytes of the file.
        where: What to call it in an error.

    Raises:
        ProfileError: It is no JSON, lacks a field, has an unknown one, or means nothing; the
            message names the field, what was expected and what was found.
    """
    try:
        return msgspec.json.decode(content, type=LatencyProfile)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ProfileError(
            f"{where} is no latency profile: {error}. The format is in docs/profiles.md; "
            "'tidegate profile MODEL' writes one."
        ) from error


def dump_profile(profile: LatencyProfile) -> bytes:
    """Write a file; ``parse_profile(dump_profile(p), …) == p``."""
    return msgspec.json.format(msgspec.json.encode(profile), indent=2) + b"\n"


def _linear(text: str) -> LatencyProfile:
    try:
        alpha_ms, beta_ms = map(float, text.removeprefix(_LINEAR).split(":"))
        law = Linear(alpha_ms=alpha_ms, beta_ms=beta_ms)
    except ValueError as error:
        raise ProfileError(
            f"{text!r}: expected {_LINEAR}ALPHA_MS:BETA_MS, two numbers that are 0 or more and "
            f"not both 0, such as linear:1.053:5.072 ({error})"
        ) from error
    origin = Origin(status="assumed", source="two numbers on a command line", date="")
    return LatencyProfile(schema=1, name=text, law=law, origin=origin)


def _unknown(text: str) -> ProfileError:
    names = bundled_profiles()
    near = get_close_matches(text, names, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return ProfileError(
        f"{text!r} is neither a bundled profile nor a file. {hint}Bundled: {', '.join(names)}. "
        "Or write linear:ALPHA_MS:BETA_MS, or measure one: tidegate profile MODEL"
    )
