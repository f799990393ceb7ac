# The pages here are tests, the code that builds them is not, and needs what tests do not install.
collect_ignore_glob = ["*.py"]
