"""What each strategy sends, in plain Python."""
