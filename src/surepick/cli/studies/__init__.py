"""The command line of studies: experiments that are kept, event by event, in a file or a database."""
