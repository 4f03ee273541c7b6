-- Put after common_needs.lua: ended jobs are bounded in number, those of each owner and all together. The oldest go, with all
-- that is kept of them, some at a time, in the step that records another one.
local FORGOTTEN_AT_ONCE = 8

-- The product that it stored, and what was stored for it: the sweep removes them.
local function give_up_matrices(job, at)
  if job.state == 'succeeded' and job.product_bytes == '0' then
    give_up_claim(product_of(job), job.owner, at)
  end
  for _, how, id in string.gmatch(needs_of(job), NEED) do
    if how == '+' then
      give_up_claim(id, job.owner, at)
    end
  end
end

-- Whether there were so many in this index that some went.
local function forget_beyond(most, index, at)
  if redis.call('ZCARD', index) < most + FORGOTTEN_AT_ONCE then
    return false
  end
  for _, id in ipairs(redis.call('ZRANGE', index, 0, FORGOTTEN_AT_ONCE - 1)) do
    local job = read(id)
    if not job then
      write('ZREM', index, id)
    elseif not job.dependents then -- else they are to be settled first
      give_up_matrices(job, at)
      forget(job)
    end
  end
  return true
end

-- An owner has no more ended jobs than there are.
local function forget_oldest(owner, most, most_of_owner, at)
  local ended = redis.call('ZCARD', prefix .. 'finished')
  local few = ended < most_of_owner + FORGOTTEN_AT_ONCE
  return not few and forget_beyond(most_of_owner, prefix .. 'finished:' .. owner, at)
    or ended >= most + FORGOTTEN_AT_ONCE and forget_beyond(most, prefix .. 'finished', at)
end
