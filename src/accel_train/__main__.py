"""Entry point of ``accel_train`` and ``python -m accel_train``."""

import os
import sys


def main() -> None:
    """Run the command line."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports below shows no traceback
    from accel_train.system.process import limit_spinning, without_gc

    limit_spinning()
    with without_gc():
        from accel_train.cli.app import main as run

    run()


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib is not imported yet
    except FileNotFoundError:  # it has been removed: see cli/app.py
        return ""


if __name__ == "__main__":
    if sys.path[0] in ("", _current_folder()) and not sys.flags.safe_path:
        del sys.path[0]  # else a queue.py or numpy/ here would replace what torch imports
    main()
