"""The command line, one file per group of commands; `app` puts them together."""
