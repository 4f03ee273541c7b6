"""Operations for operators and owners: queues, workers, jobs that used up their attempts."""
