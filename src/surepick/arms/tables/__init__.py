"""Tables of arms: read arms from a spreadsheet or a data frame, with a summary of the role of each column."""
