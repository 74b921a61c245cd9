"""Every error Paceline raises, and the exit code it means.

PacelineError
├── RequestError       exit 2: the request was wrong; the message gives the value, the rule and the remedy
│   ├── SpecError        an unknown name, key or value, or a combination that cannot work
│   ├── DataError        a data file that is missing, unreadable or truncated
│   ├── DeviceError      more devices requested than available
│   ├── CheckpointError  a checkpoint that does not belong to this run
│   └── OutputError      a folder that cannot be written, or would be overwritten
└── RunError           exit 1: the run failed; the message gives the rank, the step and the reason
    ├── WorkerLost       a worker process ended without finishing
    ├── WorkerFailed     a worker raised an exception
    ├── ServerLost       a parameter server ended while it was needed
    ├── ReplicaMisuse    no gradient for a parameter, or losses whose weights do not match the batch
    ├── NonFiniteLoss    a loss became NaN or infinite
    ├── Hang             no progress within the timeout
    └── Interrupted      the user stopped the run
"""


class PacelineError(Exception):
    """The root; catch this to catch everything Paceline raises on purpose."""

    exit_code = 1


class RequestError(PacelineError):
    """The request was wrong; nothing was run and nothing was written."""

    exit_code = 2


class SpecError(RequestError):
    """An unknown name, key or value, or a combination that cannot work."""


class DataError(RequestError):
    """A data file is missing, unreadable or truncated."""


class DeviceError(RequestError):
    """More devices were requested than are available."""


class CheckpointError(RequestError):
    """A checkpoint does not belong to this run."""


class OutputError(RequestError):
    """A folder cannot be written, or would be overwritten."""


class RunError(PacelineError):
    """The run was started and failed."""


class WorkerLost(RunError):
    """A worker process ended without finishing."""


class WorkerFailed(RunError):
    """A worker raised an exception."""


class ServerLost(RunError):
    """A parameter server ended while it was needed."""


class ReplicaMisuse(RunError):
    """Training cannot continue: a parameter got no gradient, or the weights of losses do not match the batch."""


class NonFiniteLoss(RunError):
    """A loss became NaN or infinite."""


class Hang(RunError):
    """There was no progress within the timeout."""


class Interrupted(RunError):
    """The user stopped the run."""


def cause_line(text: str) -> str:
    """The line of an error's text that names the cause: the first, or where a traceback begins in it, the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    before, traceback, _ = lines[0].partition("Traceback (most recent call last)")
    return before + lines[-1] if traceback else lines[0]


def in_one_line(text: str, file: object) -> str:
    """The cause in one line and, where the text has more lines, the file that holds them all."""
    line = cause_line(text)
    return line if line == text.strip() else f"{line} (the whole text is in {file})"


def by_name(name: str) -> type[PacelineError]:
    """The class called `name`, so that an error raised in a worker keeps its type in the parent."""
    named = globals().get(name)
    if isinstance(named, type) and issubclass(named, PacelineError):
        return named
    return WorkerFailed
