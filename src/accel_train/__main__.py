"""Entry point of ``accel_train`` and ``python -m accel_train``."""

import signal


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports below shows no traceback
    from accel_train.system.process import without_gc

    with without_gc():
        from accel_train.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
