"""Tables of arms: from a spreadsheet or a data frame to arms whose columns have been understood and announced."""
