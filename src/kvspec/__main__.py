"""`python -m kvspec` is the command `kvspec`."""

import sys

from kvspec.cli import main

if __name__ == "__main__":
    sys.exit(main())
