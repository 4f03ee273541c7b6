#!lua
-- What a running job has found, field by field, and how far it is: one step, so progress never runs ahead of what is
-- kept. `news` is JSON for those who listen. Refused while Redis is out of memory.
local id, attempt, progress, news = unpack(ARGV, 2, 5)
local job = read_running(id, attempt)
if not job then
  return 0
end
if #ARGV > 5 then
  redis.call('HSET', findings_key(id), unpack(ARGV, 6))
end
job.version = int(job.version + 1)
set(job, 'progress', progress, 'version', job.version)
announce(job, 'progress', ',"progress":' .. progress .. ',"found":' .. news)
carry_out()
return 1
