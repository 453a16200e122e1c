"""Small applications, each with a `topology()`; run one with `penstock run penstock_examples.wordcount:topology`."""
