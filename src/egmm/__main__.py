"""``python -m egmm`` is the command line."""

from egmm.cli import main

if __name__ == "__main__":
    main()
