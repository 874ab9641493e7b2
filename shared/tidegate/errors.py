"""Every error of ours, in families by whose fault it is.

::

    TidegateError
    ├── RequestRejectedError    the caller's, or the record's (which then goes to the dead letters)
    ├── OverloadedError         ours, for now: retry later
    ├── ArtifactError           whoever published the model
    ├── JobError                whoever submitted the job, or what it reads and writes
    ├── BackendError            the model runtime or its server
    ├── PartUnavailableError    Redis, Kafka, S3, Ray: a part that Tidegate needs
    └── SettingError            the operator, at start-up

An error is built from its message alone, so that it survives pickling across Ray; further fields
are attributes that a class method sets. ``code`` is stable for programs and stands in
``docs/errors.md``. Anything foreign that escapes is a bug.
"""

from typing import ClassVar, Self


class TidegateError(Exception):
    """The root: a message for a person, and a code for a program."""

    code: ClassVar[str] = "internal"

    @property
    def details(self) -> dict[str, object]:
        """What a class method set, for programs: everything but the message, by its name."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


class RequestRejectedError(TidegateError):
    """The request cannot be answered as it stands; sending it again would not help."""

    code = "malformed_request"


class OverloadedError(TidegateError):
    """Not accepted now; the same request may succeed later."""

    code = "queue_full"


class ArtifactError(TidegateError):
    """A model, a version or its files are not what they claim to be."""

    code = "artifact_invalid"


class ModelNotFoundError(ArtifactError):
    """The store holds no such model, version or alias."""

    code = "model_not_found"


class DigestMismatchError(ArtifactError):
    """A file's bytes are not the published ones: it was changed, cut short or damaged."""

    code = "digest_mismatch"

    @classmethod
    def of_file(cls, file: str, *, expected: str, found: str) -> Self:
        """Describe one changed file by its name and both digests."""
        return cls(
            f"{file} is not the file that was published: expected {expected}, found {found}. "
            "Nothing was loaded. Restore the file, or publish the model again as a new version."
        )


class AliasMovedError(ArtifactError):
    """A compare-and-swap of an alias was lost to somebody else."""

    code = "alias_moved"


class JobError(TidegateError):
    """An offline job cannot run, or cannot go on."""

    code = "job_failed"


class BackendError(TidegateError):
    """The model runtime failed, or returned what it must not."""

    code = "model_failed"
    may_blame_row: ClassVar[bool] = True
    """Whether a row can be to blame: not for a lack of memory, nor for a lost device."""


class PartUnavailableError(TidegateError):
    """A part that Tidegate needs does not answer."""

    code = "part_unavailable"


class SettingError(TidegateError):
    """The operator asked for something that cannot be started; the message says what instead."""

    code = "setting_invalid"
