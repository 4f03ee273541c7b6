-- Put after common_needs.lua: ended jobs are bounded in number, those of each owner and all together. The oldest go, with all
-- that is kept of them, some at a time, in the step that records another one.
local FORGOTTEN_AT_ONCE = 8
-- The owner of jobs that this step records, its bounds, and how many they are.
local recorded, most_kept, most_of_its, more

-- The product that it stored, and what was stored for it: the sweep removes them.
local function give_up_matrices(job, at)
  if job.state == 'succeeded' and job.product_bytes == '0' then
    give_up_claim(product_of(job.id, job.attempt), job.owner, at)
  end
  for _, how, id in string.gmatch(needs_of(job), NEED) do
    if how == '+' then
      give_up_claim(id, job.owner, at)
    end
  end
end

-- How many of so many ended jobs in this index go, where `more` were recorded in this step.
local function forget_beyond(most, index, ended, more)
  if ended < most + FORGOTTEN_AT_ONCE then
    return 0
  end
  local at, going = now(), math.min(ended - most, FORGOTTEN_AT_ONCE + more - 1)
  for _, id in ipairs(redis.call('ZRANGE', index, 0, going - 1)) do
    local job = read(id)
    if not job then
      write('ZREM', index, id)
    elseif not job.dependents then -- else they are to be settled first
      give_up_matrices(job, at)
      forget(job)
    end
  end
  return going
end

-- Whether so many ended jobs may be beyond a bound; how many they are. An owner has no more than there are.
local function are_too_many(most, most_of_owner)
  local ended = call('ZCARD', finished_key)
  return ended >= math.min(most, most_of_owner) + FORGOTTEN_AT_ONCE, ended
end

-- After jobs of one owner were recorded.
local function forget_oldest()
  if not recorded then
    return
  end
  local most, most_of_owner = tonumber(most_kept), tonumber(most_of_its)
  local _, ended = are_too_many(most, most_of_owner)
  local gone = 0
  if ended >= most_of_owner + FORGOTTEN_AT_ONCE then
    local index = prefix .. 'finished:' .. recorded
    gone = forget_beyond(most_of_owner, index, redis.call('ZCARD', index), more)
  end
  if gone == 0 then
    gone = forget_beyond(most, prefix .. 'finished', ended, more)
  end
  recorded = nil
  if gone > 0 then
    carry_out() -- the next owner's are looked for where these are no more
  end
end

local function are_recorded(owner, most, most_of_owner, jobs)
  if recorded ~= owner then
    forget_oldest()
    recorded, most_kept, most_of_its, more = owner, most, most_of_owner, 0
  end
  more = more + jobs
end
