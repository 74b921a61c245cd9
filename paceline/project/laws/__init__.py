"""Laws of scaling, one file each, and how they are fitted to tables, asked and checked."""
