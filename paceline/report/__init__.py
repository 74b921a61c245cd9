"""A study's result for people: one page, the same as Markdown, and every chart as a picture."""
