"""``python -m dm2l``."""

from dm2l.cli import main

if __name__ == "__main__":
    main()
