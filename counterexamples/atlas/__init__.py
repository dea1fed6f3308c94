"""One shortest trace for each case of the atlas, named by its group, and the code that makes them."""
