"""`python -m memoryd`: the command line, with a short road for the one command that every proxy may run."""

from __future__ import annotations

import sys


def main() -> None:
    """Start the daemon directly where asked exactly so (nothing of the command line is loaded), else the CLI."""
    arguments = sys.argv[1:]
    if arguments[:3] == ["serve", "--detach", "--home"] and len(arguments) == 4:
        from memoryd.server.daemon import serve

        sys.exit(serve(arguments[3], detach=True))
    from memoryd.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
