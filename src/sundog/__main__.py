"""`python -m sundog`: the same as the command `sundog`, for where scripts are not on the PATH.

Owns nothing. Runs in the user's terminal process, main thread.
"""

from sundog.cli import main

if __name__ == "__main__":
    main()
