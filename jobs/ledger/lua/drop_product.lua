#!lua flags=allow-oom
-- Drops the product in the record of a job that succeeded at this attempt; 0 where there is none.
local id, attempt, owner = unpack(ARGV, 2, 4)
local job = read_owned(id, owner)
if not job or job.state ~= 'succeeded' or job.attempt ~= attempt then
  return 0
elseif redis.call('HEXISTS', matrices_key(id), 'c') == 0 then -- what a pinned benchmark is charged is no product
  return 0
end
drop_matrices(job)
carry_out()
return 1
