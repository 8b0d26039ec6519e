"""`python -m wholecall`: the command line, where its program is not on the path."""

from wholecall.cli.main import main

if __name__ == "__main__":
    main()
