"""Small applications, each with a `topology()`; run one with `penstock run examples.wordcount:topology`."""
