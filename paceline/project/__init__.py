"""What more workers, or another network, would bring: curves with bands, from a table or from records."""
