#!lua flags=allow-oom
-- running → succeeded, for each (id, attempt, outcome, kernel, device, product): 1, 2 where jobs waited for its product,
-- or 0 where the attempt does not own the job. A worker whose first try timed out on the way back asks again: the same attempt gets the same answer.
local function succeed(id, attempt, outcome, kernel, device, product)
  local job = read(id)
  if job and job.state == 'succeeded' and job.attempt == attempt then
    return 1
  elseif not job or job.state ~= 'running' or job.attempt ~= attempt then
    return 0
  end
  redis.call('DEL', matrices_key(id)) -- the operands
  if product ~= '' then
    redis.call('HSET', matrices_key(id), 'c', product)
  end
  hold(job, #product)
  local fields = {'outcome', outcome, 'device', device}
  if kernel ~= '' then -- a benchmark runs many
    fields[5], fields[6] = 'kernel', kernel
  end
  if job.reply_to and product ~= '' then
    job.answer = product
  end
  finish(job, 'succeeded', now(), '', fields)
  return job.dependents and 2 or 1
end

local taken = {}
for i = 2, #ARGV, 6 do
  taken[#taken + 1] = succeed(unpack(ARGV, i, i + 5))
end
return taken
