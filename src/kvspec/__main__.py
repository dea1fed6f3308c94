"""`python -m kvspec` is the command `kvspec`."""

from kvspec.cli import main

if __name__ == "__main__":
    main()
