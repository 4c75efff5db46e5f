"""`python -m evopolicy` is the command `evopolicy`, with the modules of this folder in reach."""

import sys

from evopolicy.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
