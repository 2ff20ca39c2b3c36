"""Entry point of ``accel_train`` and ``python -m accel_train``."""

import signal


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # so early, Ctrl-C ends the process without a traceback
    from accel_train.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
