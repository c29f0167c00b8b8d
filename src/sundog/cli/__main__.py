"""`python -m sundog.cli`: the same as the command `sundog`, for where scripts are not on the PATH."""

from sundog.cli import main

if __name__ == "__main__":
    main()
