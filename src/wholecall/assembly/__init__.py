"""From deltas to proven calls. Sans-IO: values in, values out."""
