"""What operators and owners see to: queues, workers, jobs that used up their attempts."""
