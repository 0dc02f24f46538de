"""SQL of the inbox: lists, words, mailed links."""
