"""The pages. Each module has the routes of one subject and the values for their templates."""
