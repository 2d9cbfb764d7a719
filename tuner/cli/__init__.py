"""`tune`: the command line. One file a group of commands; whatever is heavy is imported inside the commands."""
