"""Entry point of ``accel_train`` and ``python -m accel_train``."""

from accel_train.cli.app import main

if __name__ == "__main__":
    main()
