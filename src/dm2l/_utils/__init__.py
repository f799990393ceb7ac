"""Arrays, threads, files, memory and checks of parameters, shared by all packages."""
