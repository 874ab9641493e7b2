"""The ``tidegate`` command.

``root`` finds the commands, ``failures`` turns what goes wrong into a line and an exit code,
``options`` and ``output`` hold what every command takes and answers. A module that holds a
command is imported whenever help is shown, so it imports what is heavy inside its functions.
"""

import sys
from collections.abc import Sequence


def main() -> None:
    """Run the command line of this process and leave it with the exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; never raises what a user did.

    A command that returns an integer (``ExitCode``) ends with it, any other with 0.
    """
    from tidegate.cli.failures import catching
    from tidegate.cli.root import root

    def invoke() -> object:
        return root.main(list(arguments), prog_name="tidegate", standalone_mode=False)

    return catching(invoke, arguments)
