"""The pages of a report: one file of HTML or Markdown for a postmortem."""
