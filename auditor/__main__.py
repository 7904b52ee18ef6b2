"""`python -m auditor` is the console script."""

from auditor.cli import main

if __name__ == "__main__":
    main()
