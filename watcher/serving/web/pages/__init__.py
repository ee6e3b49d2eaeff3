"""One module for each subject: its routes, and what they hand to their templates."""
