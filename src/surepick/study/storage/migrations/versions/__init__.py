"""One file for each revision of the tables; a file is never changed once it was released."""
