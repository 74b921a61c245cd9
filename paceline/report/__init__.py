"""Report the results of a study: one HTML page, the same content as Markdown, and every chart as a picture."""
