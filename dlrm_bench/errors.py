"""What can go wrong, as one tree.

    DlrmBenchError
      UsageError            what was asked makes no sense; exit code 2
        UnknownProblemError
        SubmissionError       nothing to judge in what was given
        TraceError            what was given as a trace is none, or has no use as one
        MismatchError         results from another GPU or precision than the trace
      CannotRunError        the request is fine, this machine or installation is not; exit code 3
        MissingFileError
        MissingPackageError   an extra is needed
        LibraryPairError      fbgemm-gpu and torch do not fit each other
        NoDeviceError
      UnfitReferenceError   a problem's reference gives nothing that an output could be held against
      SandboxError          the child process failed outside the submission's own code

A wrong, slow, crashing or hostile submission is not an error: it is a result with a status.
"""

from typing import ClassVar, Literal

ErrorKind = Literal[
    "usage",
    "unknown_problem",
    "bad_submission",
    "bad_trace",
    "results_do_not_fit",
    "cannot_run",
    "missing_file",
    "missing_package",
    "library_pair",
    "no_device",
    "unfit_reference",
    "sandbox",
]


class DlrmBenchError(Exception):
    """Any failure that dlrm-bench itself names; `kind` is what `--json` reports."""

    kind: ClassVar[ErrorKind] = "cannot_run"
    exit_code: ClassVar[int] = 3


class UsageError(DlrmBenchError):
    """The request names something that does not exist or does not fit."""

    kind: ClassVar[ErrorKind] = "usage"
    exit_code = 2


class UnknownProblemError(UsageError):
    """No problem has this id or name."""

    kind = "unknown_problem"


class SubmissionError(UsageError):
    """There is nothing to judge at the place given."""

    kind = "bad_submission"


class TraceError(UsageError):
    """A file given as a trace is none, is broken, or has nothing in it that ran on a GPU."""

    kind = "bad_trace"


class MismatchError(UsageError):
    """Results were made on another GPU or in another precision than the trace."""

    kind = "results_do_not_fit"


class CannotRunError(DlrmBenchError):
    """This machine or this installation cannot do what was asked."""


class MissingFileError(CannotRunError):
    """A file or folder that was named is not there, or cannot be written."""

    kind = "missing_file"


class MissingPackageError(CannotRunError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""

    kind = "missing_package"


class LibraryPairError(CannotRunError, ImportError):
    """fbgemm-gpu was built for another release of torch; the message has the pair that fits."""

    kind = "library_pair"


class NoDeviceError(CannotRunError):
    """The device asked for is not on this machine."""

    kind = "no_device"


class UnfitReferenceError(DlrmBenchError):
    """A problem's reference gives nothing on some inputs that an output could be held against."""

    kind = "unfit_reference"


class SandboxError(DlrmBenchError):
    """The child process failed outside the submission's own code."""

    kind = "sandbox"
