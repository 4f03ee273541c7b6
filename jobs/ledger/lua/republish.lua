#!lua flags=allow-oom
-- A new number and message for a job still queued under the old number; nil where it moved on.
local id, attempt, number = unpack(ARGV, 2, 4)
local job = read(id)
if not job or job.state ~= 'queued' or job.attempt ~= attempt or job.number ~= number or job.waits
  or tonumber(number) < 0 then
  return nil
end
local new = send(job)
set(job, 'number', new, 'published', int(now()))
carry_out()
return new
