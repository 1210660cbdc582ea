"""Tables of arms: from a spreadsheet or a data frame to arms, with a summary of how each column was understood."""
